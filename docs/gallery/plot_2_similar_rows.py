"""
One row and the rows similar to it
==================================

Why is this interval wide?

The interval is about similar rows. Here they are explained, which gpec itself does not need. Each dot
is a similar row, half of the way to one of the ten nearest rows. Its colour is the model's answer: attributions change
where the answer does.
"""

from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import GradientBoostingClassifier

import gpec

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
X, y = X.iloc[:, :10].sample(frac=1, random_state=0), 1 - y
model = GradientBoostingClassifier(random_state=0).fit(X[:300], y[X.index[:300]])

few = {"n_explained": 100, "n_boundary": 300, "background": 30, "progress": False}
g = gpec.GPEC(model, "tree", random_state=0, **few)
g.fit(X[:300]).calibrate(X[300:450])
new = X[450:]
e = g.explain(new)
loose = int(gpec.intervals.trust.firm_share(e).argsort()[3])

# %%
others = g.explain(g.similar_rows(new[loose : loose + 1]))
ax = gpec.plots.similar(e[loose], others)
