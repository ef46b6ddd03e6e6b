"""CEL, the expression language of device selectors, with cel-go's semantics, messages and costs.

An expression goes through these modules; `expression.compile_expression` puts them together:

    language/syntax     text -> tokens; the nodes of the tree
    language/parser     tokens -> tree; language/macros expands `all`, `map`, `has` and others on the way
    language/checker    sets the type of each node and the overloads of each call
    expression          tree -> nested functions, made of the blocks in evaluation
    library, functions  what expressions can call; costs has what each call costs
    budget              the limits of an evaluation
    values              types and values

An error during evaluation is a value (`values.Fault`). Exceptions are for expressions that do not compile, and for an
evaluation that exceeds its cost.
"""
