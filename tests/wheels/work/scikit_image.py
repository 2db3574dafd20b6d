"""filters, segmentation, features, transforms, measures"""

import numpy as np
from skimage import data, draw, exposure, feature, filters, graph, measure, morphology, restoration, segmentation, transform


def work(tell):
    image = np.zeros((120, 140))
    rows, columns = draw.disk((50, 60), 30)
    image[rows, columns] = 0.8
    image[80:100, 20:120] = 0.5
    image += np.random.default_rng(5).normal(0, 0.05, image.shape)
    tell("edges", feature.canny(image, 2))
    tell("threshold", filters.threshold_otsu(image))
    labels = measure.label(image > 0.3)
    tell("regions", [[one.area, list(one.centroid)] for one in measure.regionprops(labels)][:9])
    tell("superpixels", segmentation.slic(image, 40, channel_axis=None))
    tell("watershed", segmentation.watershed(-image, measure.label(image > 0.7)))
    tell("skeleton", morphology.skeletonize(image > 0.3))
    tell("warp", transform.rotate(image, 20, order=3))
    tell("hog", feature.hog(image))
    tell("denoised", restoration.denoise_tv_chambolle(image, 0.1))
    tell("contours", measure.find_contours(image, 0.4)[0])
    tell("route", list(map(list, graph.route_through_array(1 + image, (0, 0), (110, 130))[0])))
    tell("equalized", exposure.equalize_adapthist(np.clip(image, 0, 1)))
    tell("checkerboard", data.checkerboard())
