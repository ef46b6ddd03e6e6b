"""Objects that stand around another one with the same methods, add to some of them and leave the others to it."""

from inspect import isfunction


def forward(outer: object, inner: object, seam: type) -> None:
    """Let `outer` have the methods of `inner`, where its class has none of its own. `seam` is the class that both extend.

    Hot: the methods are looked up once, so that a call through any number of layers is one call.
    """
    for name, method in vars(seam).items():
        if isfunction(method) and not name.startswith("_") and getattr(type(outer), name) is method:
            setattr(outer, name, getattr(inner, name))
