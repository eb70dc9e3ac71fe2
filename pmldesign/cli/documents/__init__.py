"""Results of commands: the parts of a document, the document of each command, the HTML page."""
