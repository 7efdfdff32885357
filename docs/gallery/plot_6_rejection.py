"""
Reject uncertain explanations
=============================

If only the most certain explanations were shown, how much more stable would they be?

gpec predicts here how much the explanations of similar patients differ (``mode="predict"``). How much they really
differ is known, because they are explained, too. Then the patients with the widest intervals are rejected, one after
the other. The lower the curve, the better the uncertainty. *Closeness to 0.5* is a simple baseline: a patient is
uncertain if the model's probability is near one half.
"""

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import GradientBoostingClassifier

import gpec
from gpec.metrics import rejection_curve

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
X, y = X.iloc[:, :10].sample(frac=1, random_state=0), 1 - y
model = GradientBoostingClassifier(random_state=0).fit(X[:300], y[X.index[:300]])
few = {"n_explained": 100, "n_boundary": 300, "background": 30, "progress": False}
g = gpec.GPEC(model, "tree", mode="predict", random_state=0, **few)
g.fit(X[:300]).calibrate(X[300:400])

# %%
new = X[400:]
e = g.explain(new)
truth = g.explain(g.similar_rows(new)).values.reshape(len(new), -1, X.shape[1])
change = np.abs(truth - e.values[:, None]).mean(axis=(1, 2))
chance = model.predict_proba(new)[:, 1]
curves = {
    "gpec: width": rejection_curve(e.width.mean(axis=1), change),
    "closeness to 0.5": rejection_curve(-np.abs(chance - 0.5), change),
}
ax = gpec.plots.rejection(curves, error="mean change among similar rows")
