"""
One row: a waterfall with intervals
===================================

Which features raise or lower this one answer, and how certain is each?

A model classifies tumours as malignant or benign. A waterfall leads from the average answer to the answer for one
patient, both as log-odds, a step for each measurement. The black line on a step is its 95% interval: it holds the
attributions of the ten similar patients. A full bar has a firm sign: its interval lies on one side of the start of the
step.
"""

from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import GradientBoostingClassifier

import gpec

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
X, y = X.iloc[:, :10].sample(frac=1, random_state=0), 1 - y
model = GradientBoostingClassifier(random_state=0).fit(X[:300], y[X.index[:300]])

g = gpec.GPEC(model, "tree").fit(X[:300])
e = g.explain(X[450:])

# %%
# The patient with the largest firm share, which is the part of the attribution, by size, whose sign is firm:

share = e.firm_share
firm = int(share.argmax())
ax = gpec.plots.waterfall(e[firm])
ax.set_title(f"Patient {X.index[450 + firm]}: {share[firm]:.0%} of the explanation is firm")

# %%
# And one with a small firm share. The values alone would look just as certain.

loose = int(share.argsort()[2])
ax = gpec.plots.waterfall(e[loose])
ax.set_title(f"Patient {X.index[450 + loose]}: {share[loose]:.0%} of the explanation is firm")

# %%
# ``bars`` draws the same without adding up:

ax = gpec.plots.bars(e[loose], max_features=6)
