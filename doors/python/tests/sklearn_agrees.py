"""scikit-learn's estimators under the backend "hydrozoa" and under loky: the same results, bit for bit."""

import sys
import warnings

import joblib
import numpy
from sklearn.cluster import MeanShift
from sklearn.covariance import GraphicalLassoCV
from sklearn.datasets import make_classification, make_regression
from sklearn.decomposition import DictionaryLearning
from sklearn.ensemble import (
    BaggingClassifier, ExtraTreesRegressor, IsolationForest, RandomForestClassifier, RandomForestRegressor, StackingClassifier,
    VotingClassifier,
)
from sklearn.feature_selection import RFECV
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LassoCV, LogisticRegression, LogisticRegressionCV, SGDClassifier
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV, cross_val_score, learning_curve
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputRegressor
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

import hydrozoa.joblib  # noqa: F401

X, y = make_classification(600, 20, n_informative=8, random_state=0)
# Long enough to be shared.
LONG_X, LONG_Y = make_classification(20000, 20, n_informative=8, random_state=0)
A, b = make_regression(300, 12, random_state=0)
B = numpy.column_stack([b, b * 2])


def search(kind, **more):
    found = kind(SVC(), {"C": [0.1, 1, 10], "gamma": ["scale", 0.01]}, cv=3, n_jobs=2, **more).fit(X, y)
    return found.cv_results_["mean_test_score"], found.predict(X)


def alone(forest):
    """A forest adds its trees' predictions in threads, in any order, whatever the backend: in one it adds them in theirs."""
    return forest.set_params(n_jobs=1)


WORK = {
    "GridSearchCV": lambda: search(GridSearchCV),
    "RandomizedSearchCV": lambda: search(RandomizedSearchCV, n_iter=4, random_state=0),
    "cross_val_score": lambda: cross_val_score(LogisticRegression(), LONG_X, LONG_Y, n_jobs=2),
    "learning_curve": lambda: learning_curve(DecisionTreeClassifier(random_state=0), X, y, n_jobs=2),
    "RandomForestClassifier": lambda: alone(
        RandomForestClassifier(20, random_state=0, n_jobs=2).fit(LONG_X, LONG_Y)).predict_proba(LONG_X),
    "RandomForestRegressor": lambda: alone(RandomForestRegressor(20, random_state=0, n_jobs=2).fit(A, b)).predict(A),
    "ExtraTreesRegressor": lambda: alone(ExtraTreesRegressor(20, random_state=0, n_jobs=2).fit(A, b)).predict(A),
    "BaggingClassifier": lambda: BaggingClassifier(n_estimators=8, random_state=0, n_jobs=2).fit(X, y).predict_proba(X),
    "IsolationForest": lambda: IsolationForest(n_estimators=20, random_state=0, n_jobs=2).fit(X).score_samples(X),
    "VotingClassifier": lambda: VotingClassifier(
        [("l", LogisticRegression()), ("t", DecisionTreeClassifier(random_state=0))], voting="soft", n_jobs=2
    ).fit(X, y).predict_proba(X),
    "StackingClassifier": lambda: StackingClassifier(
        [("l", LogisticRegression()), ("t", DecisionTreeClassifier(random_state=0))], n_jobs=2
    ).fit(X, y).predict_proba(X),
    "LogisticRegressionCV": lambda: LogisticRegressionCV(Cs=3, n_jobs=2).fit(X, y).predict_proba(X),
    "LassoCV": lambda: LassoCV(n_jobs=2).fit(A, b).coef_,
    "SGDClassifier": lambda: SGDClassifier(random_state=0, n_jobs=2).fit(X, y).coef_,
    "OneVsRestClassifier": lambda: OneVsRestClassifier(LogisticRegression(), n_jobs=2).fit(X, y).decision_function(X),
    "MultiOutputRegressor": lambda: MultiOutputRegressor(DecisionTreeClassifier(random_state=0), n_jobs=2).fit(
        X, numpy.column_stack([y, 1 - y])).predict(X),
    "RFECV": lambda: RFECV(LogisticRegression(), cv=3, n_jobs=2).fit(X, y).ranking_,
    "KNeighborsClassifier": lambda: KNeighborsClassifier(n_jobs=2).fit(X, y).predict_proba(X),
    "MeanShift": lambda: MeanShift(bandwidth=5, n_jobs=2).fit(X[:200]).cluster_centers_,
    "DictionaryLearning": lambda: DictionaryLearning(5, max_iter=5, random_state=0, n_jobs=2).fit(A).components_,
    "GraphicalLassoCV": lambda: GraphicalLassoCV(n_jobs=2).fit(X[:, :6]).covariance_,
    "permutation_importance": lambda: permutation_importance(
        LogisticRegression().fit(X, y), X, y, random_state=0, n_jobs=2).importances,
}


def same(one, other):
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return numpy.array_equal(one, other)


def main():
    warnings.simplefilter("ignore")
    different = []
    for name, work in WORK.items():
        results = []
        for backend in ("loky", "hydrozoa"):
            with joblib.parallel_config(backend, inner_max_num_threads=1):
                results.append(work())
        equal = same(*results)
        print(f"{name}: {'equal' if equal else 'DIFFERENT'}", flush=True)
        different += [] if equal else [name]
    print(f"{len(WORK)} agree" if not different else f"different: {', '.join(different)}")
    return bool(different)


if __name__ == "__main__":
    sys.exit(main())
