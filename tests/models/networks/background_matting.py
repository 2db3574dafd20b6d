"""Background Matting: The World is Your Green Screen (Sengupta et al., CVPR 2020).

The context switching network of the paper's section 3.1 and appendix: an encoder for the image, one each for the background
without the subject, the soft segmentation and the frames before and after; a selector that combines each of them with the
image's features; residual blocks; and a decoder each for the matte and the foreground, the latter with a skip connection.
"""

import torch
from torch import nn

WIDTH = 64


def _convolution(inputs, outputs, kernel=3, stride=1):
    return [
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2 if kernel == 3 else 0, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(True),
    ]


def _up(inputs, outputs):
    return [nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True), *_convolution(inputs, outputs)]


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.body = nn.Sequential(
            nn.ReflectionPad2d(1),
            nn.Conv2d(channels, channels, 3, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(True),
            nn.ReflectionPad2d(1),
            nn.Conv2d(channels, channels, 3, bias=False),
            nn.BatchNorm2d(channels),
        )

    def forward(self, x):
        return x + self.body(x)


class Encoder(nn.Module):
    """Features at half and at a quarter of the size."""

    def __init__(self, inputs):
        super().__init__()
        self.to_half = nn.Sequential(
            nn.ReflectionPad2d(3), *_convolution(inputs, WIDTH, 7), *_convolution(WIDTH, 2 * WIDTH, stride=2)
        )
        self.to_quarter = nn.Sequential(*_convolution(2 * WIDTH, 4 * WIDTH, stride=2))

    def forward(self, x):
        half = self.to_half(x)
        return half, self.to_quarter(half)


class BackgroundMatting(nn.Module):
    def __init__(self):
        super().__init__()
        self.image = Encoder(3)
        self.priors = nn.ModuleList(Encoder(inputs) for inputs in (3, 1, 4))
        self.select = nn.ModuleList(nn.Sequential(*_convolution(8 * WIDTH, WIDTH, 1)) for _ in self.priors)
        self.body = nn.Sequential(*_convolution(7 * WIDTH, 4 * WIDTH, 1), *(Residual(4 * WIDTH) for _ in range(7)))
        self.matte = nn.Sequential(
            *(Residual(4 * WIDTH) for _ in range(3)),
            *_up(4 * WIDTH, 2 * WIDTH),
            *_up(2 * WIDTH, WIDTH),
            nn.ReflectionPad2d(3),
            nn.Conv2d(WIDTH, 1, 7),
            nn.Tanh(),
        )
        self.foreground_half = nn.Sequential(*(Residual(4 * WIDTH) for _ in range(3)), *_up(4 * WIDTH, 2 * WIDTH))
        self.foreground = nn.Sequential(*_up(4 * WIDTH, WIDTH), nn.ReflectionPad2d(3), nn.Conv2d(WIDTH, 3, 7))

    def forward(self, image, background, segmentation, motion):
        half, features = self.image(image)
        chosen = [features]
        for prior, encoder, select in zip((background, segmentation, motion), self.priors, self.select, strict=True):
            chosen.append(select(torch.cat((features, encoder(prior)[1]), 1)))
        x = self.body(torch.cat(chosen, 1))
        return self.matte(x), self.foreground(torch.cat((self.foreground_half(x), half), 1))
