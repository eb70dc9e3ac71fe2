"""python -m pmldesign: the command line."""

from pmldesign.cli import main

main(prog_name="pmldesign")
