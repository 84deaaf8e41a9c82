"""ONNX models as RLX graphs.

``import_onnx`` (:mod:`.importer`) walks the nodes once; each is turned into RLX operations by the function that
the module of its family registers (:mod:`.registry`): elementwise, contraction, reduction, normalization,
convolution, shape, like the operations themselves. The ``onnx`` package is imported when a model is read.
"""
