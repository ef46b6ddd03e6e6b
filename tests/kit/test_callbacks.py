"""An object around another one has the methods of that one, but for those of its own."""

from mooring.kit.callbacks import forward


class Seam:
    """What both are."""

    def first(self) -> str:
        return "nothing"

    def second(self, times: int = 1) -> str:
        return "nothing" * times

    def _inside(self) -> str:
        return "of the seam"


class Inner(Seam):
    def first(self) -> str:
        return "first of the inner one"

    def second(self, times: int = 1) -> str:
        return "second " * times

    def _inside(self) -> str:
        return "of the inner one"


class Around(Seam):
    def __init__(self, inner: Seam) -> None:
        self.inner = inner
        forward(self, inner, Seam)

    def first(self) -> str:
        return f"before {self.inner.first()}"

    def inside(self) -> str:
        return self._inside()


def test_methods_of_its_own_stay() -> None:
    assert Around(Inner()).first() == "before first of the inner one"
    assert Around(Around(Inner())).first() == "before before first of the inner one"


def test_the_others_are_those_of_the_inner_one_through_any_number_of_layers() -> None:
    inner = Inner()
    around = Around(Around(inner))
    assert around.second(2) == "second second "
    assert around.second == inner.second


def test_what_is_private_is_not_forwarded() -> None:
    assert Around(Inner()).inside() == "of the seam"
