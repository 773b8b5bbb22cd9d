"""Private data on one machine: what can be checked before it is read, and how it is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpsu.errors import ParameterError
from dpsu.inputs.columns import Items, Users
from dpsu.inputs.formats import FORMATS
from dpsu.inputs.tokens import Tokens
from dpsu.options import one_of
from dpsu.text.spec import FunctionName

if TYPE_CHECKING:
    from dpsu.contributions.pairs import Pairs
    from dpsu.randomness.keys import Key
    from dpsu.runtime.memory import Memory
    from dpsu.text.corpus import Corpus
    from dpsu.text.spec import TextSpec

Progress = Callable[[int], None]


@dataclass(frozen=True, repr=False)
class Source:
    """Data as they were given, and where users and items are in them."""

    data: Any
    user: Users
    item: Items | Tokens
    format: str | None = None
    strict: bool = False

    def __post_init__(self) -> None:
        if self.format is not None:
            one_of("format", self.format, FORMATS)
        if isinstance(self.item.tokenizer, FunctionName):
            raise ParameterError(
                f"the tokenizer is the {self.item.tokenizer}, which a file does not hold; give it "
                f"again, in Python: item=dpsu.Tokens({self.item.columns!r}, tokenizer=...)"
            )

    def check(self) -> None:
        """Refuse what names, schemas and tokenizers say is wrong; no row is read."""
        from dpsu.inputs.reading import refuse_by_names, wanted

        item = self.item
        columns = wanted(
            self.user.columns,
            item.columns,
            item.repeats,
            texts=isinstance(item, Tokens),
            types=(self.user.type, item.type),
        )
        refuse_by_names(self.data, columns, self.format, item.tokenizer)

    def refuse_public(self, paths: Iterable[tuple[str, Any]]) -> None:
        """Refuse a file of data that is also given as public: it would come out whole."""
        from dpsu.inputs.reading import refuse_private_as_public

        refuse_private_as_public(self.data, self.format, paths)

    def pairs(
        self,
        key: Key,
        *,
        with_repeats: bool,
        memory: Memory | None = None,
        progress: Progress = lambda rows: None,
    ) -> Pairs:
        """Who holds what; `with_repeats` says that it matters how often. PRIVATE."""
        from dpsu.contributions.pairs import intern
        from dpsu.inputs.reading import read

        item = self.item
        rows = read(
            self.data,
            user=self.user.columns,
            item=item.name if isinstance(item, Tokens) else item.columns,
            count=item.repeats,
            with_repeats=with_repeats,
            key=key,
            format=self.format,
            memory=memory,
            text=item.source if isinstance(item, Tokens) else None,
            tokenizer=item.tokenizer,
            types=(self.user.type, item.type),
        )
        return intern(rows, strict=self.strict, memory=memory, progress=progress)

    def corpus(self, text: TextSpec, key: Key, progress: Progress = lambda texts: None) -> Corpus:
        """All texts as tokens. PRIVATE."""
        from dpsu.inputs.reading import read_texts
        from dpsu.text.corpus import read_corpus

        rows = read_texts(
            self.data,
            self.user.columns,
            text,
            key=key,
            format=self.format,
            user_type=self.user.type,
        )
        return read_corpus(rows, text, self.item.tokenizer, strict=self.strict, progress=progress)
