"""The theory of generative masked language models, exact on small models; no fairseq needed.

- ``distributions``, ``graphs``, ``sources``, ``model_file``: Ising models, categorical fields,
  Markov-chain sources; ``states``: their enumeration, total variation and KL.
- ``mask_laws``: laws of the masked block, adaptive ones included; ``conditionals``: the exact
  block conditionals under them.
- ``objectives``, ``estimators``: pseudolikelihood in closed form, k-MPLE, MLE.
- ``asymptotics``: generalized Fisher information and sandwich covariances.
- ``constants``, ``bounds``: Poincare and entropy constants, the bound on the joint.
- ``chains``, ``simulation``: exact kernels, and vectorised chains of hundreds of sites.
- ``neural``, ``training``: a learned model's conditionals and chains against the exact ones.
- ``report``: all of it for one Ising model, as ``fairseq-gmlm theory`` prints it.

Everything is float64; errors are ``ValueError`` except for files, which raise ``UserError``.
"notes" in docstrings are the project's notes on the paper (arXiv 2407.21046).
"""
