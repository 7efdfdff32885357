"""
Do the intervals hold?
======================

Do 95% intervals hold 95%, and 50% intervals 50%?

Where similar rows are explained, intervals are exact, and there is nothing to check. Here gpec predicts their
attributions instead (``mode="predict"``), as it does for expensive explainers. To check, the similar rows of each test
row are explained, and those inside are counted at every level. On the diagonal the promise holds.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import GradientBoostingClassifier

import gpec

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
X, y = X.iloc[:, :10].sample(frac=1, random_state=0), 1 - y
model = GradientBoostingClassifier(random_state=0).fit(X[:300], y[X.index[:300]])
few = {"n_explained": 100, "n_boundary": 300, "background": 30, "progress": False}
g = gpec.GPEC(model, "tree", mode="predict", random_state=0, **few)
g.fit(X[:300]).calibrate(X[300:450])

# %%
# Similar rows at the left, the value at the right: there the explainer's answer is the truth.

new = X[450:]
e = g.explain(new)
truth = g.explain(g.similar_rows(new)).values.reshape(len(new), -1, X.shape[1])
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.8), layout="constrained")
gpec.plots.calibration(e, truth, ax=left)
gpec.plots.calibration(g.explain(new, attribution="posterior"), e.values, ax=right)
