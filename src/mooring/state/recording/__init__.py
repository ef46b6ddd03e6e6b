"""Steps of a scheduler in files: the recorder, the files of a run, and how they are read again."""
