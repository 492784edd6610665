"""Build a tiny COMET checkpoint with random weights from the package's own classes, by the Python of its environment.

python tiny_comet.py FOLDER TEXT [kiwi] writes FOLDER/hparams.yaml and FOLDER/checkpoints/model.ckpt.
"""

import sys
from pathlib import Path


def build(folder: Path, text: Path, kiwi: bool) -> None:
    import pytorch_lightning
    import sentencepiece
    import torch
    import yaml
    from comet.models import ReferencelessRegression, RegressionMetric
    from transformers import XLMRobertaConfig, XLMRobertaModel, XLMRobertaTokenizer, XLMRobertaTokenizerFast

    torch.manual_seed(1)
    encoder = folder / "encoder"
    encoder.mkdir(parents=True)
    sentencepiece.SentencePieceTrainer.train(
        input=str(text), model_prefix=str(encoder / "pieces"), vocab_size=200, hard_vocab_limit=False, minloglevel=2
    )
    tokenizer = XLMRobertaTokenizer(str(encoder / "pieces.model"))
    tokenizer.save_pretrained(encoder)
    XLMRobertaTokenizerFast.from_pretrained(encoder).save_pretrained(encoder)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    config = XLMRobertaConfig(vocab_size=len(tokenizer), max_position_embeddings=130, **sizes)
    XLMRobertaModel(config, add_pooling_layer=False).save_pretrained(encoder)
    kind = ReferencelessRegression if kiwi else RegressionMetric
    settings = {"encoder_model": "XLM-RoBERTa", "pretrained_model": str(encoder), "hidden_sizes": [16]}
    metric = kind(**settings, local_files_only=True)
    (folder / "checkpoints").mkdir()
    state = {"state_dict": metric.state_dict(), "pytorch-lightning_version": pytorch_lightning.__version__}
    torch.save(state, folder / "checkpoints" / "model.ckpt")
    identifier = {"class_identifier": "referenceless_regression_metric" if kiwi else "regression_metric"}
    (folder / "hparams.yaml").write_text(yaml.safe_dump({**dict(metric.hparams), **identifier}))


if __name__ == "__main__":
    build(Path(sys.argv[1]), Path(sys.argv[2]), "kiwi" in sys.argv)
