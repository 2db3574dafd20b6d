"""graphs, communities from a seed of Python, paths, layouts, flows, an error"""

import random

import igraph


def work(tell):
    random.seed(5)
    graph = igraph.Graph.Barabasi(200, 3)
    tell("edges", graph.get_edgelist())
    tell("rank", graph.pagerank())
    tell("between", graph.betweenness(cutoff=4))
    tell("communities", graph.community_multilevel().membership)
    tell("paths", graph.distances(source=range(5)))
    tell("flow", graph.maxflow(0, 150).value)
    tell("layout", [list(map(lambda x: round(x, 6), point)) for point in igraph.Graph.Ring(20).layout_circle()])
    tell("same", igraph.Graph.Ring(6).count_isomorphisms_vf2())
    try:
        graph.add_edge(0, 10_000)
    except igraph.InternalError as error:
        tell("error", type(error).__name__)
