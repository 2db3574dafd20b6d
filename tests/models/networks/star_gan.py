"""StarGAN: Unified Generative Adversarial Networks for Multi-Domain Image-to-Image Translation (Choi et al., CVPR 2018).

Generator and discriminator of the paper's appendix, tables 4 and 5, for CelebA: images of 128 x 128, five attributes.
"""

import torch
from torch import nn

ATTRIBUTES = 5
WIDTH = 64
SIZE = 128


def _norm(channels):
    return nn.InstanceNorm2d(channels, affine=True, track_running_stats=True)


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            _norm(channels),
            nn.ReLU(inplace=True),
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            _norm(channels),
        )

    def forward(self, x):
        return x + self.body(x)


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        layers = [nn.Conv2d(3 + ATTRIBUTES, WIDTH, 7, padding=3, bias=False), _norm(WIDTH), nn.ReLU(inplace=True)]
        width = WIDTH
        for _ in range(2):
            layers += [nn.Conv2d(width, 2 * width, 4, 2, 1, bias=False), _norm(2 * width), nn.ReLU(inplace=True)]
            width *= 2
        layers += [Residual(width) for _ in range(6)]
        for _ in range(2):
            layers += [nn.ConvTranspose2d(width, width // 2, 4, 2, 1, bias=False), _norm(width // 2)]
            layers.append(nn.ReLU(inplace=True))
            width //= 2
        layers += [nn.Conv2d(width, 3, 7, padding=3, bias=False), nn.Tanh()]
        self.layers = nn.Sequential(*layers)

    def forward(self, image, attributes):
        planes = attributes[:, :, None, None].expand(-1, -1, *image.shape[2:])
        return self.layers(torch.cat((image, planes), 1))


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        layers = [nn.Conv2d(3, WIDTH, 4, 2, 1), nn.LeakyReLU(0.01)]
        width = WIDTH
        for _ in range(5):
            layers += [nn.Conv2d(width, 2 * width, 4, 2, 1), nn.LeakyReLU(0.01)]
            width *= 2
        self.layers = nn.Sequential(*layers)
        self.real = nn.Conv2d(width, 1, 3, padding=1, bias=False)
        self.attributes = nn.Conv2d(width, ATTRIBUTES, SIZE // 64, bias=False)

    def forward(self, image):
        x = self.layers(image)
        return self.real(x), self.attributes(x).flatten(1)


class StarGAN(nn.Module):
    """The image with other attributes, and the discriminator's verdict on it."""

    def __init__(self):
        super().__init__()
        self.generator = Generator()
        self.discriminator = Discriminator()

    def forward(self, image, attributes):
        made = self.generator(image, attributes)
        return made, *self.discriminator(made)
