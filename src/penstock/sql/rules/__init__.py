"""sql/rules"""
