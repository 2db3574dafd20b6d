"""CycleGAN: Unpaired Image-to-Image Translation using Cycle-Consistent Adversarial Networks (Zhu et al., ICCV 2017).

The generators of section 4 and the appendix, in the appendix's notation c7s1-64, d128, d256, R256 x 9, u128, u64, c7s1-3 (nine
blocks are for images of 256 x 256), in both directions.
"""

from torch import nn


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.body = nn.Sequential(
            nn.ReflectionPad2d(1),
            nn.Conv2d(channels, channels, 3),
            nn.InstanceNorm2d(channels),
            nn.ReLU(True),
            nn.ReflectionPad2d(1),
            nn.Conv2d(channels, channels, 3),
            nn.InstanceNorm2d(channels),
        )

    def forward(self, x):
        return x + self.body(x)


class Generator(nn.Sequential):
    def __init__(self, blocks=9):
        layers = [nn.ReflectionPad2d(3), nn.Conv2d(3, 64, 7), nn.InstanceNorm2d(64), nn.ReLU(True)]
        for width in (64, 128):
            layers += [nn.Conv2d(width, 2 * width, 3, 2, 1), nn.InstanceNorm2d(2 * width), nn.ReLU(True)]
        layers += [Residual(256) for _ in range(blocks)]
        for width in (256, 128):
            layers += [nn.ConvTranspose2d(width, width // 2, 3, 2, 1, 1), nn.InstanceNorm2d(width // 2), nn.ReLU(True)]
        layers += [nn.ReflectionPad2d(3), nn.Conv2d(64, 3, 7), nn.Tanh()]
        super().__init__(*layers)


class CycleGAN(nn.Module):
    """The image in the other domain, and that one brought back."""

    def __init__(self):
        super().__init__()
        self.forth = Generator()
        self.back = Generator()

    def forward(self, image):
        other = self.forth(image)
        return other, self.back(other)
