"""Algorithm 1 of Cao et al. 2021, as a config says, in the folders of a workdir."""
