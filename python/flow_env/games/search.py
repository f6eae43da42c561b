"""Search for the answers of questions that need two documents, as agents with a search engine are trained to do (Search-R1, Jin et al.
2025; SLEA-RL's question answering). The published corpora and questions aren't included: these are made from a seed, so a figure of
them is of "multi-hop search, own corpus". Search is BM25, and an answer earns 1 by exact match, else nothing."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

from . import answers, seeds
from .corpus import Corpus, corpus
from .game import SPACE, Game, Seen
from .questions import Question, sample


def made(settings: Dict[str, Any], seed: int, deal: seeds.Deal) -> "Search":
    documents = corpus(settings["documents"])
    return Search(documents, sample(seed, deal, documents), settings["found"])


def parsed(action: str) -> Optional[Tuple[str, str]]:
    """`search[words]` or `answer[text]`."""
    action = action.strip(SPACE)
    for name in ("search", "answer"):
        if action.startswith(f"{name}[") and action.endswith("]"):
            text = action[len(name) + 1 : -1].strip(SPACE)
            return (name, text) if text else None
    return None


class Search(Game):
    """A question being answered."""

    def __init__(self, corpus: Corpus, question: Question, most: int) -> None:
        self.corpus, self.question, self.most = corpus, question, most
        self.instruction, self.kind, self.gold = question.text, question.kind.replace(" ", "_"), question.answer

    def board(self) -> int:
        return self.question.content()

    def reset(self) -> Seen:
        self.results: List[int] = []
        self.searched = False
        self.answer: Optional[str] = None
        return self.see(True)

    def step(self, action: str) -> Seen:
        """`search[words]` adds what it finds, `answer[text]` ends the task."""
        asked = parsed(action) if self.answer is None else None
        if asked is not None:
            if asked[0] == "search":
                self.results += [at for at in self.corpus.index.search(asked[1], self.most) if at not in self.results]
                self.searched = True
            else:
                self.answer = asked[1]
        return self.see(asked is not None)

    def see(self, valid: bool) -> Seen:
        state = seeds.text(self.question.text)
        for at in self.results:
            state = seeds.mix(state, at)
        state = seeds.mix(seeds.mix(state, int(self.searched)), 0 if self.answer is None else seeds.text(self.answer))
        won = self.answer is not None and answers.normal(self.answer) == answers.normal(self.question.answer)
        score = 0.0 if self.answer is None else answers.f1(self.answer, self.question.answer)
        info = {} if self.answer is None else {"exact_match": float(won), "f1": score}
        done = self.answer is not None
        return Seen(self.page(), state, float(valid and won), done, won, valid, self.actions(), score, info)

    def page(self) -> str:
        """All that was found so far, a document a line: documents found in one turn are still needed in the next."""
        if not self.results:
            return "Nothing was found." if self.searched else "Nothing was found yet."
        return "\n".join(f"{document.title}: {document.text}" for document in map(self.corpus.documents.__getitem__, self.results))

    def actions(self) -> List[str]:
        """Searches for the names that the question and the documents found so far tell, and, once there are any, answers with them. Any
        words can be searched for, and any text be an answer."""
        if self.answer is not None:
            return []
        shown = (name for at in self.results for name in self.corpus.documents[at].names)
        names = list(dict.fromkeys([*self.question.names, *shown]))
        answers = names if self.results else []
        return [f"search[{name}]" for name in names if name[0].isupper()] + [f"answer[{name}]" for name in answers]

    def expert(self) -> Optional[str]:
        """Searches for the two documents by their titles, then answers."""
        if self.answer is not None:
            return None
        missing = next((at for at in self.question.needs if at not in self.results), None)
        return f"answer[{self.question.answer}]" if missing is None else f"search[{self.corpus.title(missing)}]"
