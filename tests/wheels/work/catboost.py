"""training with two threads, categories, values of trees, a saved model, a metric of Python"""

import tempfile

import numpy as np
from catboost import CatBoostClassifier, CatBoostError, CatBoostRegressor, Pool


def work(tell):
    random = np.random.default_rng(6)
    x = random.standard_normal((400, 5))
    y = (x[:, 0] + x[:, 1] ** 2 > 1).astype(int)
    with tempfile.TemporaryDirectory() as folder:
        options = {"iterations": 30, "depth": 4, "random_seed": 1, "thread_count": 2, "verbose": False, "train_dir": folder}
        model = CatBoostClassifier(**options).fit(x, y)
        tell("probabilities", model.predict_proba(x[:50]))
        tell("shap", model.get_feature_importance(Pool(x[:10], y[:10]), type="ShapValues"))
        rows = [[f"c{int(value * 3)}", float(value)] for value in x[:, 2]]
        category = CatBoostRegressor(**options).fit(Pool(rows, x[:, 2], cat_features=[0]))
        tell("categories", category.predict(rows[:30]))
        model.save_model(f"{folder}/model.cbm")
        tell("loaded", CatBoostClassifier().load_model(f"{folder}/model.cbm").predict(x[:40]))
        try:
            CatBoostClassifier(**options).fit(x, np.zeros(400))
        except CatBoostError as error:
            tell("error", "unique" in str(error))
