# The user's own files count by their content: a text is seen also when its date is older than that of the text before, and
# a new date alone makes nothing again. Outputs that were made before the content was a parameter keep to dates.
from nmt.plan.layout import TABLES, table_path
from nmt.plan.published import check_replaceable
from nmt.system.fingerprints import OWN_FILES, fingerprint
from nmt.system.files import read_json
from snakemake.io import IOFile


def counts_content(output):
    """Whether the content of own files is among the parameters that Snakemake keeps of an output."""
    return any(value.startswith("'own files ") for value in kept_parameters(output) or [])


def is_linked_text(output):
    """Whether an output is the raw text of shared results."""
    return Path(output).name == "raw" and Path(output).is_symlink()


def kept_parameters(output):
    """The parameters that Snakemake keeps of an output; None for an output that it did not make."""
    return workflow.persistence.params(IOFile(f"{BUCKET}/{output}" if BUCKET else output))


def by_content(files, output):
    """Input files; the dates of the user's own ones do not count where `content` is a parameter.

    Beside results in a bucket, only those of tables ever count: on a new machine, all files are newer than the results.
    Raw text of shared results is a link, and was linked because its content is that of the user's files.
    """
    own, by_date = PLAN.own(files), not (counts_content(output) or is_linked_text(output))
    here = [local(file) if BUCKET and file in own else file for file in map(str, files)]
    counts = [file not in own or (by_date and (not BUCKET or Path(file).parent == TABLES)) for file in map(str, files)]
    return [file if dates else ancient(file) for file, dates in zip(here, counts)]


def content(files, output):
    """A parameter that changes with the content of the user's own files."""
    own, made = PLAN.own(files), Path(output)
    if not own or (made.exists() and not counts_content(output) and not is_newer(own, made)):
        return NOT_COMPARED
    return f"own files {fingerprint(own, OWN_FILES)}"


def is_newer(files, made):
    return any(Path(file).stat().st_mtime > made.stat().st_mtime for file in files if Path(file).exists())


def raw_text(wildcards):
    """The folder of raw text of a corpus."""
    return f"{LAYOUT.results}/corpora/{wildcards.corpus}/{wildcards.languages}/raw"


def own_text(wildcards):
    """The user's own files of a corpus, and the folder of raw text that is made of them."""
    raw = raw_text(wildcards)
    return PLAN.raw_text(raw).own_files, raw


def declaration(wildcards):
    """A parameter that changes with what the user declares of a corpus in the languages of the text, and its licence.

    Text that was made before this was a parameter keeps to the declaration in its description, if that has one.
    """
    raw = raw_text(wildcards)
    custom, kept = PLAN.raw_text(raw).custom, kept_parameters(raw)
    if custom is None:
        return NOT_COMPARED
    if kept is not None and not any(value.startswith("'declaration ") for value in kept):
        file = Path(raw, "corpus.json")
        if not file.exists() or read_json(file).get("declared") in (None, custom.fingerprint):
            return NOT_COMPARED
    named = [custom.licence] if "licence" in custom.non_defaults() else []
    return ", ".join([f"declaration {custom.of_languages(wildcards.languages.split('-')).fingerprint}", *named])


def scores_of(wildcards):
    """The files of scores that filters read, and the folder of cleaned text that is made with them."""
    folder = f"{LAYOUT.results}/corpora/{wildcards.corpus}/{wildcards.languages}/{wildcards.cleaning}"
    return PLAN.score_files(folder), folder


def own_pictures(wildcards):
    """The user's own files that describe pictures, and the array that is made of the pictures."""
    array = f"{LAYOUT.results}/features/{wildcards.corpus}/{wildcards.backbone}/{wildcards.split}.npy"
    return or_exit(PLAN.pictures, wildcards.corpus, wildcards.split).own_files, array


def folder_of_pictures(wildcards):
    """A parameter that changes with the folder of the user's own pictures; arrays from before it was one stay."""
    files, array = own_pictures(wildcards)
    kept = kept_parameters(array)
    if not files or (kept is not None and not any(value.startswith("'pictures in ") for value in kept)):
        return NOT_COMPARED
    return f"pictures in {PLAN.pictures(wildcards.corpus, wildcards.split).folder}"


def training_of(wildcards):
    """The file that a training writes last."""
    return f"{LAYOUT.run(wildcards.table, wildcards.system, wildcards.seed)}/training.json"


def seen(wildcards):
    """The image features that a training reads."""
    return PLAN.features(system_of(wildcards), ["train", "valid"])


def vectors(wildcards):
    """The files of word vectors that a training reads."""
    return list(or_exit(PLAN.vectors, system_of(wildcards)).values())


def sides_of_vectors(wildcards):
    """A parameter that changes with the sides whose embeddings start from word vectors.

    A training that was made before this was a parameter keeps to the sides in its record.
    """
    sides, made = sorted(or_exit(PLAN.vectors, system_of(wildcards))), training_of(wildcards)
    kept = kept_parameters(made)
    if not sides:
        return NOT_COMPARED
    if kept is not None and not any(value.startswith("'word vectors ") for value in kept):
        if not Path(made).exists() or sorted(or_exit(read_json, Path(made)).get("word_vectors", sides)) == sides:
            return NOT_COMPARED
    return f"word vectors {' '.join(sides)}"


def links(wildcards):
    """The file of word alignments that a training reads."""
    return [str(file)] if (file := system_of(wildcards).alignments) else []


def features_of(wildcards):
    """The image features that a translation reads, and the file that it writes first."""
    w = wildcards
    features = PLAN.features(tested(w), [test_of(w)[0]], PLAN.decoding(w.decoding).images)
    return features, f"{LAYOUT.run(w.table, w.system, w.seed)}/{w.selection}/{w.test}/{w.decoding}/hypotheses.txt"


def table_file(wildcards):
    """The file of a table, and what the report writes of it; stops before a trial replaces other results."""
    or_exit(check_replaceable, wildcards.table, PLAN.table(wildcards.table), LAYOUT, PLAN.settings.seeds)
    return [table_path(wildcards.table)], f"{LAYOUT.table(wildcards.table)}.json"
