"""forests with two threads, boosting, SVC, KMeans, PCA, neighbours"""

import numpy as np
from sklearn.cluster import DBSCAN, KMeans
from sklearn.datasets import load_digits, make_classification
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC


def work(tell):
    x, y = make_classification(600, 12, n_informative=6, random_state=3)
    for model in (
        RandomForestClassifier(30, n_jobs=2, random_state=1),
        HistGradientBoostingClassifier(max_iter=20, random_state=1),
        SVC(probability=False, random_state=1),
        KNeighborsClassifier(5),
        make_pipeline(StandardScaler(), LogisticRegression()),
        SGDClassifier(random_state=1),
    ):
        name = type(model).__name__
        tell(name, model.fit(x[:400], y[:400]).predict(x[400:]))
    digits = load_digits().data
    tell("kmeans", KMeans(10, n_init=2, random_state=4).fit_predict(digits[:500]))
    tell("pca", np.abs(PCA(5, svd_solver="full").fit_transform(digits[:300])).round(6))
    tell("dbscan", DBSCAN(20).fit_predict(digits[:300]))
    try:
        SVC().fit(x, np.zeros(600))
    except ValueError as error:
        tell("error", str(error))
