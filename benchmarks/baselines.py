"""What an ordinary model makes of each data set, by five-fold cross-validation."""

import warnings

import numpy as np
import xgboost
from paper.data.errors import IncompleteDataWarning
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.model_selection import StratifiedKFold, cross_validate

from paper import data as datasets

TABLES = ("census", "online_shoppers", "german_credit", "nhanes_diabetes", "nhanes_diabetes, leaky=False", "pima")
IMAGES = ("mnist", "fashion_mnist", "cifar10")


def run(seeds=(0, 1, 2)):
    lines = []
    for name in TABLES + IMAGES:
        with warnings.catch_warnings(record=True) as words:
            warnings.simplefilter("always", IncompleteDataWarning)
            load = getattr(datasets, name.split(",")[0])
            data = load(leaky=False) if "leaky" in name else load()
        X = data.X if name in TABLES else data.X.reshape(len(data), -1)
        scores = []
        for seed in seeds if name in TABLES else seeds[:1]:
            if name in TABLES:
                model = xgboost.XGBClassifier(n_jobs=2, random_state=seed)
            else:
                model = ExtraTreesClassifier(100, n_jobs=2, random_state=seed)
            folds = StratifiedKFold(5, shuffle=True, random_state=seed)
            score = ["accuracy", "roc_auc" if len(data.class_names) == 2 else "roc_auc_ovr"]
            result = cross_validate(model, X, data.y, cv=folds, scoring=score)
            scores.append([result[f"test_{s}"].mean() for s in score])
        accuracy, auroc = np.mean(scores, axis=0)
        spread = np.std(scores, axis=0, ddof=1) / np.sqrt(len(scores)) if len(scores) > 1 else (None, None)
        lines.append(
            {
                "name": name,
                "rows": len(data),
                "features": X.shape[1],
                "classes": len(data.class_names),
                "positive": float(data.y.mean()) if len(data.class_names) == 2 else None,
                "accuracy": accuracy,
                "accuracy_error": spread[0],
                "auroc": auroc,
                "auroc_error": spread[1],
                "incomplete": bool(words),
                "model": type(model).__name__,
            }
        )
        print(lines[-1], flush=True)
    return lines


def row(x):
    """One line of the table, as it also stands in docs/datasets.md."""
    positive = "" if x["positive"] is None else f"{x['positive']:.1%}"
    rows = f"{x['rows']:,}" + (" (of 60,000)" if x["incomplete"] else "")
    return f"| `{x['name']}` | {rows} | {x['features']:,} | {positive} | {x['accuracy']:.3f} | {x['auroc']:.3f} |"


def report(lines):
    return [
        "| data set | rows | features | positive | accuracy | AUROC |",
        "|---|---|---|---|---|---|",
        *(row(x) for x in lines),
    ]
