"""
Many rows: which features matter, and how surely
================================================

Over all rows, which features matter most, and for how many rows is their direction firm?
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import GradientBoostingClassifier

import gpec

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
X, y = X.iloc[:, :10].sample(frac=1, random_state=0), 1 - y
model = GradientBoostingClassifier(random_state=0).fit(X[:300], y[X.index[:300]])

g = gpec.GPEC(model, "tree").fit(X[:300])
e = g.explain(X[300:])

# %%
# The bars are mean sizes over the rows; their lines show whether the order of the features would hold for other rows.
# The share of rows in which the feature's sign is firm is at the right.

ax = gpec.plots.summary(e)

# %%
# In the next plot each dot is a patient. Faint dots have wide intervals.

ax = gpec.plots.beeswarm(e)

# %%
# One feature alone: its value against its attribution. Bright dots are uncertain; they gather where the curve is steep.

fig, ax = plt.subplots(figsize=(6.5, 4))
ax = gpec.plots.scatter(e, "mean concave points", ax=ax)
