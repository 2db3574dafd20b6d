"""training with two threads, an objective of Python, values of trees, a saved model"""

import numpy as np
import xgboost


def work(tell):
    random = np.random.default_rng(8)
    x = random.standard_normal((600, 6))
    y = x[:, 0] * 2 + np.sin(x[:, 1]) * 3
    data = xgboost.DMatrix(x, y)
    options = {"nthread": 2, "max_depth": 4, "seed": 1, "verbosity": 0}
    booster = xgboost.train(options, data, 20)
    tell("predicted", booster.predict(data))
    tell("contributions", booster.predict(xgboost.DMatrix(x[:20]), pred_contribs=True))
    own = xgboost.train(options, data, 8, obj=lambda predicted, source: (predicted - source.get_label(), np.ones_like(predicted)))
    tell("objective", own.predict(data)[:50])
    again = xgboost.Booster(model_file=booster.save_raw("json"))
    tell("loaded", bool((again.predict(data) == booster.predict(data)).all()))
    tell("classes", xgboost.XGBClassifier(n_estimators=8, n_jobs=2).fit(x, (y > 0).astype(int)).predict_proba(x[:30]))
    try:
        xgboost.train({"objective": "none such"}, data, 1)
    except xgboost.core.XGBoostError as error:
        tell("error", "Unknown objective" in str(error))
