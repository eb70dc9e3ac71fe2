"""What commands found: the parts of a document, what each command says, and the page in HTML."""
