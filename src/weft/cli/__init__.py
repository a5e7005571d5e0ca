"""The commands of `weft`, one thin module each."""
