"""values of trees by its extension, a kernel explainer, a sampled mask compiled by numba"""

import numpy as np
import shap
from sklearn.ensemble import RandomForestRegressor


def work(tell):
    random = np.random.default_rng(4)
    x = random.standard_normal((120, 6))
    y = x[:, 0] * 3 - x[:, 1] ** 2 + x[:, 2]
    model = RandomForestRegressor(20, max_depth=5, random_state=0).fit(x, y)
    tell("trees", shap.TreeExplainer(model).shap_values(x[:20]))
    tell("interventional", shap.TreeExplainer(model, x[:30]).shap_values(x[30:40]))
    explainer = shap.explainers.Exact(lambda rows: rows[:, 0] * 2 + rows[:, 3], x[:20])
    tell("exact", explainer(x[:5]).values)
    permutation = shap.explainers.Permutation(model.predict, x[:20], seed=3)
    tell("permutation", permutation(x[:3], silent=True).values)
