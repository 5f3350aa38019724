"""Files and folders that are whole or absent: write a draft, sync it to the disk, rename it.

A process may be killed and the power may fail at any moment: whatever has its final name is
complete. Pass `durable=False` to skip the sync where a lost file only costs work done again.

    write(path, text)               write a file of this text or these bytes
    put(path, fill)                 write a file with `fill(draft)`
    put_folder(path, fill)          write a folder with `fill(draft)`
    remove_folder(path)             delete a folder, whole or not at all
    remove_drafts(folder)           delete what killed writers left behind
    cache_folder()                  where computed files are kept to be used again

All raise OSError; the caller knows how to report it, or leaves that to `writing`. Every
write-then-rename of the package is here: `atomic` holds these functions, `model_folder` replaces
a saved model of many files, and `export_folder` the files of an export.
"""

from .atomic import (
    cache_folder,
    draft_of,
    is_draft,
    put,
    put_folder,
    remove_drafts,
    remove_folder,
    sync,
    sync_tree,
    write,
)

__all__ = ["cache_folder", "draft_of", "is_draft", "put", "put_folder", "remove_drafts"]
__all__ += ["remove_folder", "sync", "sync_tree", "write"]
