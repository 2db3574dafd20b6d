"""least squares, a generalized model, ARIMA's filter in Cython, smoothing"""

import numpy as np
import statsmodels.api as sm
from statsmodels.nonparametric.smoothers_lowess import lowess
from statsmodels.tsa.arima.model import ARIMA
from statsmodels.tsa.holtwinters import ExponentialSmoothing


def work(tell):
    random = np.random.default_rng(2)
    x = sm.add_constant(random.standard_normal((200, 3)))
    y = x @ [1, 2, 0.5, -1] + random.standard_normal(200)
    fitted = sm.OLS(y, x).fit()
    tell("ols", [fitted.params, fitted.pvalues, fitted.rsquared])
    tell("poisson", sm.GLM(random.poisson(3, 200), x, family=sm.families.Poisson()).fit().params)
    series = np.cumsum(random.standard_normal(150))
    tell("arima", ARIMA(series, order=(1, 1, 1)).fit().params)
    tell("smoothing", ExponentialSmoothing(series - series.min() + 1, trend="add").fit().forecast(5))
    tell("lowess", lowess(y, x[:, 1]))
    tell("quantiles", sm.QuantReg(y, x).fit(0.3).params)
