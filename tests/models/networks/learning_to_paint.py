"""Learning to Paint With Model-based Deep Reinforcement Learning (Huang et al., ICCV 2019).

The actor is a ResNet-18 that sees canvas, target, step number and coordinates, and gives five strokes; the neural renderer draws
a stroke of ten parameters on 128 x 128 pixels. Both as in the paper's figure 4.
"""

import torch
from torch import nn
from torch.nn import functional as F

SIZE = 128
STROKES = 5
# Ten parameters of the curve, and its colour.
SHAPE, COLOUR = 10, 3


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.first_norm = nn.BatchNorm2d(outputs)
        self.second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.second_norm = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = F.relu(self.first_norm(self.first(x)))
        return F.relu(self.second_norm(self.second(y)) + self.shortcut(x))


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(9, 64, 3, 2, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU())
        blocks, inputs = [], 64
        for outputs, stride in ((64, 2), (128, 2), (256, 2), (512, 2)):
            blocks += [Block(inputs, outputs, stride), Block(outputs, outputs, 1)]
            inputs = outputs
        self.blocks = nn.Sequential(*blocks)
        self.out = nn.Linear(512, STROKES * (SHAPE + COLOUR))

    def forward(self, x):
        return torch.sigmoid(self.out(F.adaptive_avg_pool2d(self.blocks(self.stem(x)), 1).flatten(1)))


class Renderer(nn.Module):
    def __init__(self):
        super().__init__()
        sizes = (SHAPE, 512, 1024, 2048, 4096)
        layers = []
        for before, after in zip(sizes, sizes[1:], strict=False):
            layers += [nn.Linear(before, after), nn.ReLU()]
        self.dense = nn.Sequential(*layers)
        layers = []
        for inputs, middle, outputs in ((16, 32, 32), (8, 16, 16), (4, 8, 4)):
            layers += [nn.Conv2d(inputs, middle, 3, 1, 1), nn.ReLU(), nn.Conv2d(middle, outputs, 3, 1, 1)]
            layers.append(nn.PixelShuffle(2))
        self.draw = nn.Sequential(*layers)

    def forward(self, strokes):
        drawn = self.draw(self.dense(strokes).view(-1, 16, SIZE // 8, SIZE // 8))
        return 1 - torch.sigmoid(drawn)


class Painter(nn.Module):
    """Paints the target onto an empty canvas in so many steps of five strokes."""

    def __init__(self, steps=4):
        super().__init__()
        self.steps = steps
        self.actor = Actor()
        self.renderer = Renderer()
        rows, columns = torch.meshgrid(torch.linspace(0, 1, SIZE), torch.linspace(0, 1, SIZE), indexing="ij")
        self.register_buffer("coordinates", torch.stack((rows, columns))[None])

    def forward(self, target):
        batch = target.shape[0]
        canvas = torch.zeros_like(target)
        coordinates = self.coordinates.expand(batch, -1, -1, -1)
        for step in range(self.steps):
            done = torch.full((batch, 1, SIZE, SIZE), step / self.steps)
            strokes = self.actor(torch.cat((canvas, target, done, coordinates), 1))
            strokes = strokes.view(-1, SHAPE + COLOUR)
            alpha = self.renderer(strokes[:, :SHAPE])
            colour = alpha * strokes[:, SHAPE:, None, None]
            alpha = (1 - alpha).view(batch, STROKES, 1, SIZE, SIZE)
            colour = colour.view(batch, STROKES, COLOUR, SIZE, SIZE)
            for stroke in range(STROKES):
                canvas = canvas * alpha[:, stroke] + colour[:, stroke]
        return canvas
