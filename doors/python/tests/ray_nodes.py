"""Ray on interpreters: a cluster of two nodes, and on each an actor that holds an executor. Weights exist once on a node. A node that
dies loses no result that was returned.
"""

import numpy
import ray
from ray.cluster_utils import Cluster

import hydrozoa


def where(value):
    import sys

    return value * value, "_hydrozoa_worker" in sys.modules


def place(weights):
    return weights.ctypes.data, float(weights.sum())


@ray.remote(num_cpus=1, max_concurrency=4)
class Node:
    """The actor that receives a node's tasks."""

    def __init__(self, weights):
        self.weights = weights
        self.executor = hydrozoa.Executor(2)

    def map(self, function, values):
        return list(self.executor.map(function, values))

    def places(self, times):
        own = self.weights.ctypes.data
        return [found == (own, float(len(self.weights))) for found in self.executor.map(place, [self.weights] * times)]

    def fail(self):
        return self.executor.submit(int, "x").result()


def main():
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
    ray.init(address=cluster.address, log_to_driver=False)
    try:
        weights = ray.put(numpy.ones(1 << 20))
        actors = [Node.options(scheduling_strategy="SPREAD").remote(weights) for _ in nodes]
        results = ray.get([actor.map.remote(where, list(range(100))) for actor in actors])
        assert results == [[(n * n, True) for n in range(100)]] * 2
        assert all(all(found) for found in ray.get([actor.places.remote(6) for actor in actors]))
        try:
            ray.get(actors[0].fail.remote())
        except ValueError as error:
            assert "invalid literal" in str(error)
        else:
            raise AssertionError("an exception is lost")
        cluster.remove_node(nodes[0])
        alive, dead = 0, 0
        for actor in actors:
            try:
                assert ray.get(actor.map.remote(where, [3]), timeout=60) == [(9, True)]
                alive += 1
            except ray.exceptions.RayActorError:
                dead += 1
        assert (alive, dead) == (1, 1), (alive, dead)
        assert results == [[(n * n, True) for n in range(100)]] * 2
        print("two nodes, one removed: weights once on each, all results are there")
    finally:
        ray.shutdown()
        cluster.shutdown()


if __name__ == "__main__":
    main()
