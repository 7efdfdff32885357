"""
An image: upper bound, value, lower bound
=========================================

Which parts of an image raise the probability of its class, and how certain is that?

The images are scikit-learn's digits, 8 by 8 pixels, and the model is a small network. The explainer covers blocks of
pixels. Where all three panels have one colour, the sign is firm.
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

import gpec
from gpec.images import SuperpixelExplainer

digits = load_digits()
images, is_three = digits.images / 16, digits.target == 3
network = MLPClassifier((16,), max_iter=400, random_state=0)
network.fit(images[:1200].reshape(1200, 64), is_three[:1200])


def model(rows):
    return network.predict_proba(rows.reshape(len(rows), 64))[:, 1]


blocks = np.kron(np.arange(16).reshape(4, 4), np.ones((2, 2), dtype=int))  # sixteen blocks of four pixels
g = gpec.GPEC(
    model,
    SuperpixelExplainer("kernelshap", segments=blocks, baseline=0.0),
    kernel="weg",  # the paper's; one for all pixels, so it is learned quickly
    standardize=False,  # pixels share one unit already
    n_boundary=200,
    n_explained=40,
    random_state=0,
    progress=False,
)
g.fit(images[:1200]).calibrate(images[1200:1260])

# %%
threes = images[1300:][is_three[1300:]]
e = g.explain(threes[:1])
axes = gpec.plots.image(e[0], shape=(8, 8), picture=True, title="Why is it a three?")
