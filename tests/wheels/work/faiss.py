"""flat, IVF, HNSW and product quantizer indices, k-means, a saved index"""

import faiss
import numpy as np


def work(tell):
    random = np.random.default_rng(1)
    data = random.standard_normal((3000, 32)).astype("float32")
    queries = data[:40] + 0.05
    for name in ("Flat", "IVF16,Flat", "HNSW16", "PQ8x4"):
        index = faiss.index_factory(32, name)
        index.train(data)
        index.add(data)
        distances, places = index.search(queries, 5)
        tell(name, [distances, places])
    tell("saved", faiss.deserialize_index(faiss.serialize_index(index)).ntotal)
    means = faiss.Kmeans(32, 8, niter=5, seed=3)
    means.train(data)
    tell("centroids", means.centroids)
    binary = faiss.IndexBinaryFlat(256)
    binary.add(random.integers(0, 256, (500, 32)).astype("uint8"))
    tell("binary", binary.search(random.integers(0, 256, (5, 32)).astype("uint8"), 3))
    try:
        faiss.index_factory(32, "Nothing")
    except RuntimeError as error:
        tell("error", "could not parse" in str(error))
