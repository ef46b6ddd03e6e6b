"""CEL, the expression language of device selectors: parser, checker and evaluator, with cel-go's costs."""
