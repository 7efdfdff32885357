"""
Two features: where explanations are uncertain
==============================================

Where in the plane do explanations change quickly?

With two features the whole plane can be drawn. The data are two moons, the model is a small network.
"""

from sklearn.datasets import make_moons
from sklearn.neural_network import MLPClassifier

import gpec
from gpec.kernels import WEG

X, y = make_moons(800, noise=0.2, random_state=0)
model = MLPClassifier((32, 32), max_iter=600, random_state=0).fit(X[:600], y[:600])
few = {"n_explained": 100, "n_boundary": 600, "background": 50, "progress": False}
g = gpec.GPEC(model, "exact", components="bridge", random_state=0, **few)
g.fit(X[:600]).calibrate(X[600:])

# %%
# The colour is the width of the similar-row interval of ``x0``, the first feature. Black is the decision boundary,
# circles are the rows that were explained in ``fit``. Explanations are uncertain along the boundary, and firm away from
# it.

area = [(-1.4, 2.4), (-0.9, 1.3)]
ax = gpec.plots.heatmap(g, "x0", attribution="explainer", limits=area, color_limits=(0, 0.8), n_grid=40)

# %%
# The method of the paper measures how far apart two rows are *along* the boundary. The line is such a path. Around each
# of three rows is its similarity ball: the rows that the kernel treats as similar.

ends = [[-0.5, 0.0], [1.7, 0.5]]
centers = [[-0.9, 0.5], [0.4, 0.7], [0.9, -0.4]]
ax = gpec.plots.boundary(g, ends=ends, centers=centers, kernel=WEG(), limits=area)
