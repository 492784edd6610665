"""Reference pipeline for neural machine translation: each module is one stage or one of its parts."""
