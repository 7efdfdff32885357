"""What the paper prints about regularisation: Table 1 (means), Table 5 (standard errors), Table 6 (parameters)."""

from __future__ import annotations

__all__ = ["ERRORS", "LEVELS", "MEANS", "PARAMETERS"]

# Data set and what is varied -> its levels, from least to most regularised.
LEVELS: dict[tuple[str, str], tuple[float, ...]] = {
    ("Census", "gamma"): (0, 5, 10),
    ("Online Shoppers", "gamma"): (0, 5, 10),
    ("German Credit", "gamma"): (0, 5, 10),
    ("CIFAR-10", "l2"): (0, 1e-5, 1e-4),
    ("CIFAR-10", "beta"): (1, 0.5, 0.25),
    ("MNIST", "l2"): (0, 1e-5, 1e-4),
    ("MNIST", "beta"): (1, 0.5, 0.25),
    ("Fashion-MNIST", "l2"): (0, 1e-5, 1e-4),
    ("Fashion-MNIST", "beta"): (1, 0.5, 0.25),
}

Row = tuple[float, float, float] | None  # None where the paper has a dash

# Table 1: mean width, by method.
MEANS: dict[tuple[str, str], dict[str, Row]] = {
    ("Census", "gamma"): {
        "GPEC": (1.573, 1.177, 1.158),
        "Naive-GP": (0.498, 0.472, 0.467),
        "BayesSHAP": (0.037, 0.037, 0.037),
        "BayesLIME": (0.097, 0.096, 0.095),
        "CXPlain": (0.064, 0.064, 0.069),
    },
    ("Online Shoppers", "gamma"): {
        "GPEC": (0.209, 0.123, 0.092),
        "Naive-GP": (3.699, 3.724, 3.730),
        "BayesSHAP": (0.031, 0.031, 0.031),
        "BayesLIME": (0.098, 0.097, 0.093),
        "CXPlain": (0.004, 0.003, 0.006),
    },
    ("German Credit", "gamma"): {
        "GPEC": (2.665, 1.747, 0.250),
        "Naive-GP": (0.330, 0.412, 2.533),
        "BayesSHAP": (0.019, 0.019, 0.018),
        "BayesLIME": (0.085, 0.066, 0.045),
        "CXPlain": (1.7e-4, 1.1e-4, 4.3e-4),
    },
    ("CIFAR-10", "l2"): {
        "GPEC": (0.029, 0.029, 0.028),
        "Naive-GP": (0.902, 0.902, 0.902),
        "BayesSHAP": None,
        "BayesLIME": None,
        "CXPlain": (9.5e-5, 0.2e-5, 2.6e-5),
    },
    ("CIFAR-10", "beta"): {
        "GPEC": (0.033, 0.032, 0.032),
        "Naive-GP": (0.903, 0.903, 0.903),
        "BayesSHAP": None,
        "BayesLIME": None,
        "CXPlain": (1.6e-5, 0.2e-5, 9.1e-5),
    },
    ("MNIST", "l2"): {
        "GPEC": (0.236, 0.157, 0.078),
        "Naive-GP": (4.00, 4.00, 3.99),
        "BayesSHAP": (0.025, 0.016, 0.008),
        "BayesLIME": (2.452, 1.573, 0.737),
        "CXPlain": (0.1e-5, 5.0e-5, 8.6e-5),
    },
    ("MNIST", "beta"): {
        "GPEC": (0.087, 0.073, 0.056),
        "Naive-GP": (0.226, 0.232, 0.236),
        "BayesSHAP": (0.013, 0.011, 0.010),
        "BayesLIME": (0.868, 0.866, 0.721),
        "CXPlain": (5.3e-5, 8.0e-5, 5.4e-5),
    },
    ("Fashion-MNIST", "l2"): {
        "GPEC": (0.378, 0.187, 0.063),
        "Naive-GP": (3.98, 3.99, 3.99),
        "BayesSHAP": (0.030, 0.014, 0.007),
        "BayesLIME": (2.605, 1.364, 0.666),
        "CXPlain": (7.2e-5, 4.8e-5, 6.2e-5),
    },
    ("Fashion-MNIST", "beta"): {
        "GPEC": (0.112, 0.075, 0.061),
        "Naive-GP": (0.301, 0.261, 0.262),
        "BayesSHAP": (0.018, 0.010, 0.009),
        "BayesLIME": (1.178, 0.861, 0.779),
        "CXPlain": (9.0e-5, 6.6e-5, 9.6e-5),
    },
}

# Table 5: their standard errors. Its CXPlain lines of MNIST and Fashion-MNIST repeat Table 1 and are left out.
ERRORS: dict[tuple[str, str], dict[str, Row]] = {
    ("Census", "gamma"): {
        "GPEC": (0.037, 0.037, 0.036),
        "Naive-GP": (0.032, 0.032, 0.032),
        "BayesSHAP": (1.9e-4, 1.9e-4, 1.9e-4),
        "BayesLIME": (0.001, 0.001, 0.001),
        "CXPlain": (0.006, 0.006, 0.006),
    },
    ("Online Shoppers", "gamma"): {
        "GPEC": (0.017, 0.013, 0.010),
        "Naive-GP": (0.036, 0.036, 0.036),
        "BayesSHAP": (1.9e-4, 1.9e-4, 1.9e-4),
        "BayesLIME": (0.002, 0.002, 0.002),
        "CXPlain": (7.8e-5, 9.9e-5, 2.2e-4),
    },
    ("German Credit", "gamma"): {
        "GPEC": (0.026, 0.030, 0.012),
        "Naive-GP": (0.004, 0.001, 0.001),
        "BayesSHAP": (1.2e-4, 1.0e-4, 0.7e-4),
        "BayesLIME": (0.001, 0.001, 0.001),
        "CXPlain": (2.2e-6, 1.4e-6, 6.9e-6),
    },
    ("CIFAR-10", "l2"): {
        "GPEC": (2.8e-5, 2.8e-5, 2.8e-5),
        "Naive-GP": (1.6e-3, 1.6e-3, 1.6e-3),
        "CXPlain": (1.9e-7, 5.7e-7, 5.2e-7),
    },
    ("CIFAR-10", "beta"): {
        "GPEC": (2.5e-5, 2.5e-5, 2.5e-5),
        "Naive-GP": (1.6e-3, 1.6e-3, 1.6e-3),
        "CXPlain": (2.8e-8, 5.8e-8, 1.7e-8),
    },
    ("MNIST", "l2"): {
        "GPEC": (3.2e-5, 3.1e-5, 3.1e-5),
        "Naive-GP": (1.6e-7, 1.6e-7, 1.6e-7),
        "BayesSHAP": (4.9e-4, 3.1e-4, 2.1e-4),
        "BayesLIME": (0.009, 0.009, 0.003),
    },
    ("MNIST", "beta"): {
        "GPEC": (2.2e-6, 2.2e-6, 2.2e-6),
        "Naive-GP": (2.3e-7, 2.3e-7, 2.2e-7),
        "BayesSHAP": (4.5e-4, 4.2e-4, 4.2e-4),
        "BayesLIME": (0.005, 0.005, 0.005),
    },
    ("Fashion-MNIST", "l2"): {
        "GPEC": (8.3e-5, 8.3e-5, 8.1e-5),
        "Naive-GP": (3.6e-7, 3.6e-7, 3.6e-7),
        "BayesSHAP": (1.3e-3, 0.5e-3, 0.2e-3),
        "BayesLIME": (0.067, 0.038, 0.009),
    },
    ("Fashion-MNIST", "beta"): {
        "GPEC": (2.1e-6, 1.9e-6, 1.9e-6),
        "Naive-GP": (3.6e-7, 3.5e-7, 3.6e-7),
        "BayesSHAP": (0.002, 0.002, 0.002),
        "BayesLIME": (0.010, 0.011, 0.011),
    },
}

# Table 6: lambda and rho.
PARAMETERS: dict[str, tuple[float, float]] = {
    "Census": (1.0, 0.1),
    "Online Shoppers": (1.0, 0.1),
    "German Credit": (1.0, 0.1),
    "MNIST": (1.0, 0.01),
    "Fashion-MNIST": (1.0, 0.01),
    "CIFAR-10": (1.0, 0.05),
}
