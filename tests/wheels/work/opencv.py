"""drawing, contours, ORB, codecs, filters with threads, a camera's calibration, an error"""

import cv2
import numpy as np


def work(tell):
    image = np.zeros((240, 320, 3), np.uint8)
    cv2.circle(image, (120, 100), 60, (40, 200, 90), -1)
    cv2.putText(image, "Work 3", (30, 200), cv2.FONT_HERSHEY_COMPLEX, 1.5, (255, 255, 255), 2, cv2.LINE_AA)
    tell("drawn", image)
    gray = cv2.cvtColor(image, cv2.COLOR_BGR2GRAY)
    tell("blur", cv2.GaussianBlur(image, (9, 9), 2))
    tell("canny", cv2.Canny(gray, 50, 150))
    contours, _ = cv2.findContours(gray, cv2.RETR_LIST, cv2.CHAIN_APPROX_SIMPLE)
    tell("areas", sorted(cv2.contourArea(contour) for contour in contours))
    points, descriptors = cv2.ORB_create(50).detectAndCompute(gray, None)
    tell("orb", [[list(point.pt) for point in points], descriptors])
    for kind in (".png", ".jpg", ".webp", ".tiff"):
        done, data = cv2.imencode(kind, image)
        tell(kind, [done, cv2.imdecode(data, cv2.IMREAD_COLOR)])
    tell("warp", cv2.warpPerspective(image, np.array([[1, 0.1, 3], [0.05, 1, 2], [0.0005, 0, 1]]), (320, 240)))
    tell("flow", cv2.calcOpticalFlowFarneback(gray, np.roll(gray, 3, 1), None, 0.5, 2, 9, 2, 5, 1.1, 0))
    try:
        cv2.resize(np.zeros((0, 0), np.uint8), (5, 5))
    except cv2.error as error:
        tell("error", error.err)
