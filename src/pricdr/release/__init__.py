"""What crosses between the parties: a folder, its certificate, and how both are checked."""

from pricdr.release.folder import Release as Release, verify as verify
