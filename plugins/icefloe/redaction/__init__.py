"""What must not leave this process: the values that open catalogs and stores, in every form they may come back in."""
