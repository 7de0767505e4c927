"""The autoregressive model whose translations become training targets."""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

from fairseq import checkpoint_utils
from fairseq.data import Dictionary
from fairseq.models.nat import FairseqNATModel
from fairseq.models.transformer import TransformerModelBase

from fairseq_gmlm.data import databin
from fairseq_gmlm.data.checkpoints import field, load_checkpoint, section
from fairseq_gmlm.data.databin import Languages
from fairseq_gmlm.errors import UserError

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Teacher:
    """A loaded teacher and the dictionaries of the data it translates.

    Attributes:
        path: its checkpoint.
        model: fairseq's model, in evaluation mode, on the CPU.
        task: fairseq's task that it was trained on.
        languages: the direction it translates in.
        source_dictionary, target_dictionary: of the data, equal to its own.
    """

    path: Path
    model: Any
    task: Any
    languages: Languages
    source_dictionary: Dictionary
    target_dictionary: Dictionary


def direction_of(state: Any, data: Path, pair: Languages) -> Languages:
    """The direction that a checkpoint translates in, which need not be the order in file names.

    Raises:
        UserError: when its languages are not the data's.
    """
    task = section(state, "task")
    source = field(task, "source_lang") or pair.source
    target = field(task, "target_lang") or pair.target
    if {source, target} != set(pair):
        raise UserError(
            f"the teacher translates {source} to {target}, but {data} holds "
            f"{pair.source} and {pair.target}"
        )
    return Languages(source, target)


def compare_dictionaries(ours: Dictionary, folder: Path, language: str, data: Path) -> None:
    """Refuse a teacher's dictionary that differs from the data's.

    Raises:
        UserError: naming the first entry that differs.
    """
    theirs = databin.load_dictionary(folder, language)
    for index in range(max(len(ours), len(theirs))):
        mine = ours.symbols[index] if index < len(ours) else None
        other = theirs.symbols[index] if index < len(theirs) else None
        if mine != other:
            raise UserError(
                f"dict.{language}.txt: entry {index} is {other!r} for the teacher ({folder}) and "
                f"{mine!r} in the data ({data}): prepare the data with the teacher's dictionaries "
                "(--srcdict, --tgtdict, --bpe-codes), or train a teacher on this data"
            )


def _own_data(state: Any, teacher_data: Optional[Path]) -> Optional[Path]:
    """The folder that the teacher was trained on, if it can be found."""
    if teacher_data is not None:
        if not teacher_data.is_dir():
            raise UserError(f"--teacher-data: no such folder: {teacher_data}")
        return teacher_data
    recorded = field(section(state, "task"), "data")
    folder = Path(str(recorded).split(":")[0]) if recorded else None
    return folder if folder is not None and folder.is_dir() else None


def _check_dictionaries(
    state: Any, path: Path, data: Path, languages: Languages, teacher_data: Optional[Path]
) -> None:
    folder = _own_data(state, teacher_data)
    for language, side in zip(languages, ("encoder", "decoder")):
        ours = databin.load_dictionary(data, language)
        name = f"{side}.embed_tokens.weight"
        rows = state["model"][name].shape[0] if name in state["model"] else len(ours)
        if folder is not None and (folder / f"dict.{language}.txt").is_file():
            compare_dictionaries(ours, folder, language, data)
        elif rows == len(ours):
            logger.warning(
                "the data that %s was trained on is not here: only the size of dict.%s.txt can be "
                "checked, not its words; --teacher-data DIR names a folder with its dictionaries",
                path,
                language,
            )
        if rows != len(ours):
            raise UserError(
                f"{path} knows {rows} symbols of {language}, dict.{language}.txt in {data} has "
                f"{len(ours)}: prepare the data with the teacher's dictionaries"
            )


def load_teacher(
    path: Path, data: Path, pair: Languages, teacher_data: Optional[Path] = None
) -> Teacher:
    """Load a teacher for a data-bin.

    Args:
        pair: the languages in the order of the data's file names.
        teacher_data: the folder that it was trained on, if the checkpoint's own note is wrong.

    Raises:
        UserError: for an unreadable checkpoint, a model that is not autoregressive, and
            dictionaries or languages other than the data's.
    """
    state = load_checkpoint(path)
    languages = direction_of(state, data, pair)
    _check_dictionaries(state, path, data, languages, teacher_data)
    overrides = {
        "data": str(data),
        "source_lang": languages.source,
        "target_lang": languages.target,
    }
    try:
        models, _, task = checkpoint_utils.load_model_ensemble_and_task(
            [str(path)], arg_overrides=overrides
        )
    except (RuntimeError, KeyError) as error:
        raise UserError(f"{path}: cannot be loaded ({error})") from error
    model = models[0]
    if not isinstance(model, TransformerModelBase) or isinstance(model, FairseqNATModel):
        raise UserError(
            f"{path} is a {type(model).__name__}: distillation needs an autoregressive teacher, "
            "trained with --arch transformer or one of its sizes"
        )
    model.eval()
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    return Teacher(
        path=path,
        model=model,
        task=task,
        languages=languages,
        source_dictionary=task.source_dictionary,
        target_dictionary=task.target_dictionary,
    )
