"""Super SloMo: High Quality Estimation of Multiple Intermediate Frames for Video Interpolation (Jiang et al., CVPR 2018).

Two U-Nets of six scales: the first estimates the optical flow between two frames, the second refines the flows to the frame in
between and says which of the two frames shows each of its pixels.
"""

import torch
from torch import nn
from torch.nn import functional as F

CHANNELS = (32, 64, 128, 256, 512, 512)
# Kernels of the first scales see far displacements (section 3.3 of the paper).
KERNELS = (7, 5, 3, 3, 3, 3)


def _pair(inputs, outputs, kernel):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2),
        nn.LeakyReLU(0.1),
        nn.Conv2d(outputs, outputs, kernel, padding=kernel // 2),
        nn.LeakyReLU(0.1),
    )


class UNet(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.first = _pair(inputs, CHANNELS[0], KERNELS[0])
        self.down = nn.ModuleList(
            _pair(before, after, kernel)
            for before, after, kernel in zip(CHANNELS, CHANNELS[1:], KERNELS[1:], strict=False)
        )
        self.up = nn.ModuleList()
        self.merge = nn.ModuleList()
        for before, after in zip(CHANNELS[::-1], CHANNELS[-2::-1], strict=False):
            self.up.append(nn.Conv2d(before, after, 3, padding=1))
            self.merge.append(nn.Conv2d(2 * after, after, 3, padding=1))
        self.last = nn.Conv2d(CHANNELS[0], outputs, 3, padding=1)

    def forward(self, x):
        scales = [self.first(x)]
        for down in self.down:
            scales.append(down(F.avg_pool2d(scales[-1], 2)))
        x = scales.pop()
        for up, merge in zip(self.up, self.merge, strict=True):
            x = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
            x = F.leaky_relu(up(x), 0.1)
            x = F.leaky_relu(merge(torch.cat((x, scales.pop()), 1)), 0.1)
        return F.leaky_relu(self.last(x), 0.1)


def warp(image, flow):
    """The image, each pixel taken from where the flow points."""
    height, width = image.shape[-2:]
    rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    x = 2 * (columns + flow[:, 0] + 0.5) / width - 1
    y = 2 * (rows + flow[:, 1] + 0.5) / height - 1
    return F.grid_sample(image, torch.stack((x, y), 3), align_corners=False)


class SuperSloMo(nn.Module):
    """The frame at `time` (0 to 1) between two frames."""

    def __init__(self):
        super().__init__()
        self.flow = UNet(6, 4)
        self.interpolate = UNet(20, 5)

    def forward(self, first, second, time):
        flows = self.flow(torch.cat((first, second), 1))
        forth, back = flows[:, :2], flows[:, 2:]
        # Equation 4 of the paper: the flows from the frame in between, as if motion were even.
        to_first = -(1 - time) * time * forth + time * time * back
        to_second = (1 - time) * (1 - time) * forth - time * (1 - time) * back
        refined = self.interpolate(
            torch.cat(
                (first, second, forth, back, to_second, to_first, warp(second, to_second), warp(first, to_first)), 1
            )
        )
        to_first = to_first + refined[:, :2]
        to_second = to_second + refined[:, 2:4]
        seen_first = torch.sigmoid(refined[:, 4:5])
        weight_first = (1 - time) * seen_first
        weight_second = time * (1 - seen_first)
        blended = weight_first * warp(first, to_first) + weight_second * warp(second, to_second)
        return blended / (weight_first + weight_second)
