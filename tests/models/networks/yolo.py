"""YOLOv3: An Incremental Improvement (Redmon and Farhadi, 2018).

Darknet-53 (the paper's table 1) and detections at three scales with nine anchors (section 2.3), for COCO's 80 classes.
"""

import torch
from torch import nn
from torch.nn import functional as F

CLASSES = 80
# Strides and the anchors, in pixels, of the three scales.
SCALES = (
    (32, ((116, 90), (156, 198), (373, 326))),
    (16, ((30, 61), (62, 45), (59, 119))),
    (8, ((10, 13), (16, 30), (33, 23))),
)


def convolution(inputs, outputs, kernel, stride=1):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False),
        nn.BatchNorm2d(outputs),
        nn.LeakyReLU(0.1),
    )


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.squeeze = convolution(channels, channels // 2, 1)
        self.expand = convolution(channels // 2, channels, 3)

    def forward(self, x):
        return x + self.expand(self.squeeze(x))


class Darknet53(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = convolution(3, 32, 3)
        self.stages = nn.ModuleList()
        width = 32
        for blocks in (1, 2, 8, 8, 4):
            stage = [convolution(width, 2 * width, 3, 2), *(Residual(2 * width) for _ in range(blocks))]
            self.stages.append(nn.Sequential(*stage))
            width *= 2

    def forward(self, x):
        features = [self.stem(x)]
        for stage in self.stages:
            features.append(stage(features[-1]))
        return features[:2:-1]


class Head(nn.Module):
    """Five convolutions by turns of 1 x 1 and 3 x 3, and from them the detections."""

    def __init__(self, inputs, width, stride, anchors):
        super().__init__()
        layers = []
        for _ in range(2):
            layers += [convolution(inputs, width, 1), convolution(width, 2 * width, 3)]
            inputs = 2 * width
        self.body = nn.Sequential(*layers, convolution(2 * width, width, 1))
        outputs = len(anchors) * (5 + CLASSES)
        self.detect = nn.Sequential(convolution(width, 2 * width, 3), nn.Conv2d(2 * width, outputs, 1))
        self.stride = stride
        self.register_buffer("anchors", torch.tensor(anchors, dtype=torch.float32), persistent=False)

    def forward(self, x):
        x = self.body(x)
        raw = self.detect(x)
        batch, _, height, width = raw.shape
        raw = raw.view(batch, len(self.anchors), 5 + CLASSES, height, width).permute(0, 1, 3, 4, 2)
        rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
        centres = (raw[..., :2].sigmoid() + torch.stack((columns, rows), -1)) * self.stride
        sizes = raw[..., 2:4].exp() * self.anchors[:, None, None]
        boxes = torch.cat((centres, sizes, raw[..., 4:].sigmoid()), -1)
        return x, boxes.reshape(batch, -1, 5 + CLASSES)


class YOLOv3(nn.Module):
    """For every candidate its box (centre and size in pixels), objectness and the classes' probabilities."""

    def __init__(self):
        super().__init__()
        self.backbone = Darknet53()
        self.heads = nn.ModuleList()
        self.laterals = nn.ModuleList()
        inputs = 1024
        for width, (stride, anchors) in zip((512, 256, 128), SCALES, strict=True):
            self.heads.append(Head(inputs, width, stride, anchors))
            if stride != 8:
                self.laterals.append(convolution(width, width // 2, 1))
            # The next scale sees its own features beside those that come from above.
            inputs = width // 2 + width

    def forward(self, image):
        features = self.backbone(image)
        x, boxes = self.heads[0](features[0])
        found = [boxes]
        for lateral, head, feature in zip(self.laterals, self.heads[1:], features[1:], strict=True):
            x = F.interpolate(lateral(x), scale_factor=2, mode="nearest")
            x, boxes = head(torch.cat((x, feature), 1))
            found.append(boxes)
        return torch.cat(found, 1)
