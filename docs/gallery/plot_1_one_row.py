"""
One row: a waterfall with intervals
===================================

Which features raise or lower this one answer, and how certain is each?

A model classifies tumours as malignant or benign. A waterfall leads from the average answer to the answer for one
patient, a step for each measurement. The black line on a step is its 95% interval: 95% of the attributions of similar
patients lie inside. Where it crosses the start of the step, similar patients may have the opposite sign.
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
e = g.explain(X[450:])

# %%
# The patient with the firmest explanation:

share = gpec.intervals.trust.firm_share(e)
firm = int(share.argmax())
ax = gpec.plots.waterfall(e[firm])
ax.set_title(f"Patient {X.index[450 + firm]}: {share[firm]:.0%} of the explanation is firm")

# %%
# And one whose explanation is not firm. The values alone would look just as certain.

loose = int(share.argsort()[3])
ax = gpec.plots.waterfall(e[loose])
ax.set_title(f"Patient {X.index[450 + loose]}: {share[loose]:.0%} of the explanation is firm")

# %%
# ``bars`` draws the same without adding up:

ax = gpec.plots.bars(e[loose], max_features=6)
