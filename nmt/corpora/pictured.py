"""Pictures of a corpus that lie in a mirror, and the lines of a larger corpus that have one."""

import csv
import tarfile
from pathlib import Path
from typing import cast

from nmt.config.corpus.sources import Hash
from nmt.config.types import Name, Strict
from nmt.corpora.formats.packed import unpacking
from nmt.corpora.sources import verified
from nmt.system.errors import fitting
from nmt.system.files import atomic_directory, write_text
from nmt.system.lines import read_lines


class MirrorFile(Strict):
    """A file that only mirrors have."""

    mirror: str
    sha256: Hash


class PictureArchive(Strict):
    """Pictures of some lines of a text; corpora.yaml explains its keys."""

    made: str
    tar: MirrorFile
    index: MirrorFile
    splits: dict[Name, str]

    def of_split(self, split: str, mirror: Path | None = None) -> dict[int, str]:
        """Return the lines of a split that have a picture, from 0 and in order, with the picture's name in the tar.

        Raises:
            ConfigError: the mirror folder does not exist.
            DataError: the index is not available, or its checksum is wrong.
        """
        path = self._verified(self.index, mirror)
        with fitting(path, "an index with the columns split, line0 and multi30k_image", "get the file again"):
            rows = csv.DictReader(read_lines(path), delimiter="\t")
            named = {int(row["line0"]): row["multi30k_image"] for row in rows if row["split"] == self.splits[split]}
        return dict(sorted(named.items()))

    def unpack(self, out: Path, limit: int | None = None, mirror: Path | None = None) -> None:
        """Write the pictures atomically, and ``{split}.txt`` with their names in the order of the text.

        Args:
            out: folder to write.
            limit: unpack only the first pictures of each split.
            mirror: folder with the files; None: the variable NMT_MIRROR.

        Raises:
            ConfigError, DataError: as `of_split`; or the tar is damaged.
        """
        path = self._verified(self.tar, mirror)
        with atomic_directory(out, "train.txt") as part, unpacking(path, "tar"), tarfile.open(path) as tar:
            for split in self.splits:
                names = list(self.of_split(split, mirror).values())[:limit]
                for name in names:
                    (part / name).write_bytes(cast("tarfile.ExFileObject", tar.extractfile(name)).read())
                write_text(part / f"{split}.txt", "".join(f"{name}\n" for name in names))

    def _verified(self, file: MirrorFile, mirror: Path | None) -> Path:
        return verified(None, self.made, file.mirror, file.sha256, mirror)
