"""
One row and the rows similar to it
==================================

Why is this interval wide?

The interval is about similar rows. Trees are cheap to explain, so gpec has explained all of them. Each dot
is a similar row: the row moved halfway towards one of its ten nearest neighbours. Its colour is the model's answer:
attributions change where the answer does.
"""

from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import GradientBoostingClassifier

import gpec

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
X, y = X.iloc[:, :10].sample(frac=1, random_state=0), 1 - y
model = GradientBoostingClassifier(random_state=0).fit(X[:300], y[X.index[:300]])

g = gpec.GPEC(model, "tree").fit(X[:300])
new = X[450:]
e = g.explain(new)
loose = int(e.firm_share.argsort()[2])

# %%
# ``e[loose].similar_values`` has their attributions. The plot also shows what the model answers for them:

others = g.explain(g.similar_rows(new[loose : loose + 1]))
ax = gpec.plots.similar(e[loose], others)
