"""Metrics of a model's own, which the server reports with its own."""

import weakref

from _hydrozoa_errors import TritonModelException

COUNTER, GAUGE, HISTOGRAM = range(3)
_NAMES = ("counter", "gauge", "histogram")


class Metric:
    """One series of a family. `MetricFamily.Metric` makes it. As with Triton it is of no use without its family."""

    def __init__(self, family, series):
        self._family, self._series = weakref.ref(family), series

    def increment(self, value):
        """Adds to a counter, which takes no negative value, or to a gauge."""
        self._change("increment", value)

    def set(self, value):
        """Sets a gauge."""
        self._change("set", value)

    def observe(self, value):
        """Counts a value in a histogram."""
        self._change("observe", value)

    def value(self):
        """The value of a counter or gauge."""
        if self._kind() == HISTOGRAM:
            raise TritonModelException("Failed to get metric value: a histogram has none")
        return self._series.value()

    def _kind(self):
        family = self._family()
        if family is None:
            raise TritonModelException(
                "Invalid metric operation as the corresponding 'MetricFamily' has been deleted. The 'MetricFamily' object "
                "should be deleted AFTER its corresponding 'Metric' objects have been deleted."
            )
        return family._kind

    def _change(self, operation, value):
        self._kind()
        problem = getattr(self._series, operation)(float(value))
        if problem is not None:
            raise TritonModelException(f"Failed to {operation} metric value: {problem}")


class MetricFamily:
    """A metric with a name and a description."""

    COUNTER, GAUGE, HISTOGRAM = COUNTER, GAUGE, HISTOGRAM

    def __init__(self, name, description, kind):
        if kind not in (COUNTER, GAUGE, HISTOGRAM):
            raise TritonModelException("Error when creating MetricFamily: Unknown metric kind")
        import triton_python_backend_utils

        self._kind = kind
        self._family = triton_python_backend_utils._server.metric_family(name, description, _NAMES[kind])
        if isinstance(self._family, str):
            raise TritonModelException(f"Error when creating MetricFamily: {self._family}")

    def Metric(self, labels=None, buckets=None):
        """A series of the family, with these labels. A histogram needs the upper limits of its buckets."""
        if labels is not None and not isinstance(labels, dict):
            raise TritonModelException("Failed to create metric. Labels must be a dictionary.")
        if self._kind == HISTOGRAM:
            if buckets is None:
                raise TritonModelException("Failed to create metric. Missing required buckets.")
            if not isinstance(buckets, list):
                raise TritonModelException("Failed to create metric. Buckets must be a list.")
        elif buckets is not None:
            raise TritonModelException("Failed to create metric. Unexpected buckets found.")
        labels = {str(key): str(value) for key, value in (labels or {}).items()}
        try:
            series = self._family.series(labels, [float(limit) for limit in buckets or ()])
        except ValueError as error:
            raise TritonModelException(f"Failed to create metric. {error}") from None
        return Metric(self, series)
